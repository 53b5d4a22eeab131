// A page that is opened as a file may start no worker: the search of the site runs in a hidden frame instead.
if (location.protocol === "file:") {
  // the search asks for it by the second name
  window.Worker = window.IFrameWorker = class extends EventTarget {
    constructor(address) {
      super();
      this.frame = document.createElement("iframe");
      this.frame.hidden = true;
      document.body.append(this.frame);
      const inner = this.frame.contentWindow;
      const own = new URL(address, location);
      const load = (place) => new Promise((done, failed) => {
        const script = inner.document.createElement("script");
        Object.assign(script, { src: new URL(place, own).href, onload: done, onerror: failed });
        inner.document.head.append(script);
      });
      inner.importScripts = (...places) => places.reduce((before, place) => before.then(() => load(place)), Promise.resolve());
      inner.postMessage = (data) => {
        const event = new MessageEvent("message", { data });
        this.dispatchEvent(event);
        if (this.onmessage) this.onmessage(event);
      };
      this.ready = load(own);
    }
    postMessage(data) {
      this.ready.then(() => this.frame.contentWindow.dispatchEvent(new MessageEvent("message", { data })));
    }
    terminate() {
      this.frame.remove();
    }
  };
}
