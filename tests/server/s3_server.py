"""A server that speaks S3, as a program: prints its port, and lets writes wait for as long as a file is there."""

from __future__ import annotations

import sys
import time
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from moto.moto_server.werkzeug_app import DomainDispatcherApplication, create_backend_app
from werkzeug.serving import make_server


def main(port: int, hold: Path) -> None:
    s3 = DomainDispatcherApplication(create_backend_app)

    def app(environ: dict[str, Any], start_response: Any) -> Iterable[bytes]:
        while environ["REQUEST_METHOD"] == "PUT" and hold.exists():
            time.sleep(0.02)
        answer: Iterable[bytes] = s3(environ, start_response)
        return answer

    server = make_server("127.0.0.1", port, app, threaded=True)
    print(server.port, flush=True)
    server.serve_forever()


if __name__ == "__main__":
    main(int(sys.argv[1]), Path(sys.argv[2]))
