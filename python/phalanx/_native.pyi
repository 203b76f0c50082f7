import os
from collections.abc import Buffer
