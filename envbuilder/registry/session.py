"""Requests that say no more of us than we tell them to."""

from __future__ import annotations

from requests import PreparedRequest, Request, Response, Session


class OwnSession(Session):
    """Takes proxies and certificates from the environment, and nothing from ~/.netrc: what docker knows counts here."""

    def prepare_request(self, request: Request) -> PreparedRequest:
        # where there is nothing, netrc is asked, and replaces even a token
        request.auth = request.auth or (lambda prepared: prepared)
        return super().prepare_request(request)

    def rebuild_auth(self, prepared_request: PreparedRequest, response: Response) -> None:
        """Who we are sent on to does not learn who we are here."""
        if self.should_strip_auth(response.request.url, prepared_request.url):  # type: ignore[no-untyped-call]
            prepared_request.headers.pop("Authorization", None)
