import ast
import re
from pathlib import Path

import pytest
import tensorflow_serving.apis
from google.protobuf import descriptor_pb2, descriptor_pool

from sangam.components.server import services

pytestmark = pytest.mark.slow


@pytest.mark.parametrize("name", ["prediction_service", "model_service"])
def test_a_described_service_is_that_of_the_module_that_cannot_be_imported(name: str) -> None:
    assert len(services.SERVICES) == 2
    module = Path(tensorflow_serving.apis.__path__[0], f"{name}_pb2.py").read_text()
    [text] = re.findall(r"serialized_pb=_b\(\s*(.*?)\)\s*,\s*dependencies", module, re.DOTALL)
    theirs = descriptor_pb2.FileDescriptorProto.FromString(ast.literal_eval(f"({text})").encode("latin1"))
    ours = descriptor_pb2.FileDescriptorProto()
    descriptor_pool.Default().FindFileByName(theirs.name).CopyToProto(ours)
    assert ours == theirs
