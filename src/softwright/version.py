"""The version of softwright, alone, so that whoever states it (certificates, the command) imports nothing else."""

from __future__ import annotations

__version__ = "0.1.0"
