"""The HTTP session of package indexes and registries: retries, certificates and credentials in one place."""

from __future__ import annotations

import re
import socket
import ssl
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import requests
from requests.adapters import HTTPAdapter
from requests.exceptions import ChunkedEncodingError, InvalidURL, ProxyError, SSLError
from requests.utils import get_environ_proxies, select_proxy
from urllib3.exceptions import HTTPError, InvalidHeader
from urllib3.util.retry import Retry
from urllib3.util.ssl_match_hostname import CertificateError

from envbuilder.errors import NetworkError
from envbuilder.language import English, english, tr

ATTEMPTS = 5
# statuses after which a retry may succeed
TRANSIENT = frozenset({408, 429, 500, 502, 503, 504})
_LONGEST_PAUSE = 30.0
# limits of an answer that is read as a whole: pages of indexes have a few MB
_CHUNK, _MOST, _LONGEST = 2**16, 2**27, 600.0
# the limit of a file: wheels of torch with CUDA have a GB
MOST_OF_A_FILE = 2**33
# urllib3 raises its own error where it compares the host name itself
_CERTIFICATE_ERRORS = (ssl.SSLCertVerificationError, CertificateError)
_OUT_OF_DATE = re.compile(r"has expired|is not yet valid")
_LONGEST_LINE = 2000
_PORTS = {"http": 80, "https": 443}
# a path may contain an @ too
_CREDENTIALS = re.compile(r"(?<=://)[^/\s]+@|[^/\s'\":]+:[^/\s'\"]+@")


class ResponseTooLargeError(requests.RequestException):
    """An answer that is larger, or takes longer, than every valid answer."""


class RedirectError(requests.RequestException):
    """A server leads to an address that a request must not follow."""


def anywhere(_: str, __: str) -> bool:
    """Follow every redirect."""
    return True


def stays_encrypted(before: str, after: str) -> bool:
    """Follow no redirect from TLS to plain HTTP, whose answers anyone on the way can read and change."""
    return urlsplit(before).scheme != "https" or urlsplit(after).scheme == "https"


def stays_there(before: str, after: str) -> bool:
    """Follow no redirect to another server."""
    return _server(before) == _server(after)


def _server(address: str) -> tuple[str, str | None, int | None]:
    parts = urlsplit(address)
    return parts.scheme, parts.hostname, parts.port or _PORTS.get(parts.scheme)


class _Retry(Retry):
    """Retries with the same pauses in every version of urllib3, and none for a certificate that is not trusted."""

    def get_backoff_time(self) -> float:
        # urllib3 does not pause before the second attempt
        return float(min(self.backoff_factor * 2 ** (len(self.history) - 1), _LONGEST_PAUSE))

    def get_retry_after(self, response: Any) -> float | None:
        try:
            wanted = super().get_retry_after(response)
        except InvalidHeader:
            return None
        return None if wanted is None else min(wanted, _LONGEST_PAUSE)

    def increment(
        self, method: str | None = None, url: str | None = None, response: Any = None,
        error: Exception | None = None, _pool: Any = None, _stacktrace: Any = None,
    ) -> _Retry:  # fmt: skip
        if error is not None and _is_about_certificate(error):
            raise error
        return super().increment(method, url, response, error, _pool, _stacktrace)


class _Adapter(HTTPAdapter):
    """An adapter that also retries when the connection breaks within the body, which urllib3 does not."""

    def __init__(self, retries: Retry, most: int) -> None:
        super().__init__(max_retries=retries)
        self._most = most

    def send(
        self, request: requests.PreparedRequest, stream: bool = False, *arguments: Any, **named: Any
    ) -> requests.Response:
        retries = self.max_retries
        while True:
            answer = super().send(request, stream, *arguments, **named)
            if stream:
                return answer
            try:
                _read_whole(answer, self._most)
            except (ChunkedEncodingError, requests.ConnectionError) as error:
                answer.close()
                if not retries.total:
                    raise
                retries = retries.increment(request.method, request.url, error=error)
                retries.sleep()
            else:
                return answer


class Session(requests.Session):
    """A session that retries transient failures and takes proxies from the environment.

    A given CA bundle is trusted instead of the one that variables name. Without `netrc`, no credentials are taken
    from ~/.netrc, neither for the first request nor after a redirect. No answer may have more than `most` bytes.
    `follows` returns whether a redirect from one address to another is followed.
    """

    def __init__(
        self, ca_bundle: Path | None = None, *, netrc: bool, back_off: float = 0.5, attempts: int = ATTEMPTS,
        most: int | None = None, follows: Callable[[str, str], bool] = anywhere,
    ) -> None:  # fmt: skip
        super().__init__()
        self._follows = follows
        self._ca_bundle = str(ca_bundle) if ca_bundle else None
        self._netrc = netrc
        retries = _Retry(
            total=attempts - 1, allowed_methods=None, status_forcelist=TRANSIENT, raise_on_status=False,
            backoff_factor=back_off,
        )  # fmt: skip
        for scheme in ("https://", "http://"):
            self.mount(scheme, _Adapter(retries, most or _MOST))

    def request(self, *arguments: Any, **named: Any) -> requests.Response:
        try:
            return super().request(*arguments, **named)
        except requests.RequestException:
            raise
        except (HTTPError, ValueError) as error:
            # the address of a redirect is invalid, which requests does not expect
            raise InvalidURL(str(error)) from error

    def merge_environment_settings(self, url: Any, proxies: Any, stream: Any, verify: Any, cert: Any) -> Any:
        # requests prefers REQUESTS_CA_BUNDLE to `self.verify`, but not to the argument
        return super().merge_environment_settings(url, proxies, stream, self._ca_bundle or verify, cert)

    def prepare_request(self, request: requests.Request) -> requests.PreparedRequest:
        if not self._netrc:
            # requests reads ~/.netrc where there is no authentication, and replaces even a header with a token
            request.auth = request.auth or (lambda prepared: prepared)
        return super().prepare_request(request)

    def rebuild_auth(self, prepared_request: requests.PreparedRequest, response: requests.Response) -> None:
        # requests calls this with the final address, before it follows a redirect
        before, after = str(response.request.url), str(prepared_request.url)
        if not self._follows(before, after):
            raise RedirectError(origin(after), request=response.request)
        if self._netrc:
            super().rebuild_auth(prepared_request, response)  # type: ignore[no-untyped-call]
        elif self.should_strip_auth(response.request.url, prepared_request.url):  # type: ignore[no-untyped-call]
            prepared_request.headers.pop("Authorization", None)


def network_error(error: requests.RequestException, address: str, *, hint: str) -> NetworkError:
    """Return the error to show for a failed request. It names the host of the address, or the one redirected to."""
    if error.request is not None and error.request.url:
        address = error.request.url
    host = _host(address)
    if isinstance(error, RedirectError):
        return NetworkError(
            english("{host} leads to {address}, which must not be followed", host=host, address=str(error)),
            hint=tr("others could read or change what is sent there; who runs {host} has to repair it", host=host),
        )
    reason = _reason(error)
    if _is_about_certificate(error):
        found = _OUT_OF_DATE.search(reason)
        if found is None:
            return NetworkError(
                english("the TLS certificate of {host} is not trusted", host=host),
                hint=tr("give the certificate of its authority with --ca-bundle or REQUESTS_CA_BUNDLE"),
            )
        clock = time.strftime("%Y-%m-%d %H:%M")
        return NetworkError(
            english("the TLS certificate of {host} has expired", host=host)
            if "expired" in found[0]
            else english("the TLS certificate of {host} is not yet valid", host=host),
            hint=tr("the clock of this machine shows {time}; set it if that is wrong", time=clock),
        )
    if isinstance(error, SSLError):
        return NetworkError(
            english("the TLS connection to {host} fails: {reason}", host=host, reason=reason), hint=hint
        )
    if isinstance(error, ProxyError):
        return NetworkError(
            english("the proxy for {host} does not answer: {reason}", host=host, reason=reason),
            hint=tr("check the proxy variables"),
        )
    if any(isinstance(item, socket.gaierror) for item in _causes(error)):
        # behind a proxy this machine looks up only the proxy
        proxy = without_credentials(select_proxy(address, get_environ_proxies(address)) or "none")
        return NetworkError(
            english("the DNS lookup of {host} failed; proxy: {proxy}", host=host, proxy=proxy), hint=hint
        )
    return NetworkError(english("{host} does not answer: {reason}", host=host, reason=reason), hint=hint)


def without_credentials(text: str) -> str:
    """Return the text without the user and password of an address in it."""
    return _CREDENTIALS.sub("", text)


def origin(address: str) -> str:
    """Return the scheme and the host of a valid address, without a path, which may contain a secret."""
    parts = urlsplit(without_credentials(address))
    return f"{parts.scheme}://{parts.netloc}"


def _host(address: str) -> str:
    """Return the host of an address, or all of an address that has none."""
    shown = without_credentials(address)
    try:
        return urlsplit(shown).netloc or shown
    except ValueError:
        return shown


def _read_whole(answer: requests.Response, most: int) -> None:
    """Read the content of the response. Raise if it never ends, or if it is incomplete, which urllib3 1.26 ignores."""
    # a file may take as long as a slow network needs, as long as it moves
    longest = _LONGEST * max(1, most / _MOST)
    began, parts, size = time.monotonic(), [], 0
    for part in answer.iter_content(_CHUNK):
        parts.append(part)
        size += len(part)
        if size > most or time.monotonic() - began > longest:
            answer.close()
            raise ResponseTooLargeError(
                english("the answer has more than {size} MB", size=size // 10**6), request=answer.request
            )
    # what `content` returns from now on
    answer._content = b"".join(parts)
    if answer.raw.length_remaining:
        raise ChunkedEncodingError(
            english("{number} bytes are missing", number=answer.raw.length_remaining), request=answer.request
        )


def _is_about_certificate(error: Exception) -> bool:
    return any(isinstance(item, _CERTIFICATE_ERRORS) for item in _causes(error))


def _reason(error: Exception) -> str:
    """Return the innermost cause in one short line."""
    cause = _causes(error)[-1]
    if cause.args and isinstance(cause.args[0], English):
        return cause.args[0]
    text = (isinstance(cause, OSError) and cause.strerror) or str(cause) or type(cause).__name__
    # the search for credentials in a long line would take minutes
    return without_credentials(text.splitlines()[0][:_LONGEST_LINE])[:200]


def _causes(error: Exception) -> list[BaseException]:
    """Return an exception and those inside it, the innermost last. requests and urllib3 nest them in several ways."""
    found: list[BaseException] = []
    inner: BaseException | None = error
    while inner is not None and inner not in found:
        found.append(inner)
        nested = (getattr(inner, "reason", None), *inner.args, inner.__cause__, inner.__context__)
        inner = next((item for item in nested if isinstance(item, BaseException)), None)
    return found
