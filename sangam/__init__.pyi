# What `__getattr__` of __init__.py gives, for editors and mypy.
from sangam.components.model.model import Model as Model
from sangam.components.model.model import load as load
from sangam.components.registry.checkpoint import RankerCheckpoint as RankerCheckpoint
from sangam.pipelines.api.client import Client as Client
from sangam.pipelines.api.client import client as client
from sangam.pipelines.api.root import Root as Root
from sangam.pipelines.api.root import RunFailed as RunFailed
from sangam.pipelines.api.run import Run as Run
from sangam.pipelines.api.running import run as run
from sangam.pipelines.api.spec import Spec as Spec
from sangam.pipelines.api.spec import validate as validate
from sangam.schemas.errors import UserError as UserError
from sangam.schemas.problems import Problem as Problem
from sangam.schemas.problems import SpecError as SpecError
