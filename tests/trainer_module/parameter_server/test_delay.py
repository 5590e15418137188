import time
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import grpc
import pytest

from sangam.schemas.errors import UserError
from sangam.trainer_module.parameter_server.delay import VARIABLE, Delayed


class _Echo(grpc.GenericRpcHandler):
    def service(self, handler_call_details: Any) -> Any:
        if handler_call_details.method == "/unknown":
            return None
        return grpc.unary_unary_rpc_method_handler(lambda request, context: request)


@pytest.mark.parametrize(("declared", "late"), [("600", {"pull", "push"}), ("push:600", {"push"})])
def test_calls_are_late_by_the_delay_and_calls_at_once_together(declared: str, late: set[str]) -> None:
    server = grpc.server(ThreadPoolExecutor(4))
    server.add_generic_rpc_handlers([Delayed(_Echo(), declared)])
    port = server.add_insecure_port("127.0.0.1:0")
    server.start()
    try:
        with grpc.insecure_channel(f"127.0.0.1:{port}") as channel:
            for method in ("pull", "push"):
                call = channel.unary_unary(f"/service/{method}")
                call(b"connects")
                started = time.monotonic()
                assert [future.result() for future in [call.future(b"x"), call.future(b"y")]] == [b"x", b"y"]
                took_s = time.monotonic() - started
                assert 0.6 <= took_s < 1.2 if method in late else took_s < 0.6
            with pytest.raises(grpc.RpcError) as raised:
                channel.unary_unary("/unknown")(b"")
            assert raised.value.code() == grpc.StatusCode.UNIMPLEMENTED
    finally:
        server.stop(None).wait()


def test_a_delay_that_is_no_number_is_refused() -> None:
    with pytest.raises(UserError, match=VARIABLE):
        Delayed(_Echo(), "pull:slow")
