"""What new users and an attacker once found: each case that went wrong has a test, here or where `FOUND` says.

A row of `FOUND` is what was found, and the test that fails where it is so.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import nn
from typer.testing import CliRunner

import softwright as sw
from softwright.cli import app
from softwright.fileformat import read_model, write_model
from softwright.proof.prover import certify


def told(path: Path, command: str = "info") -> tuple[int, str]:
    result = CliRunner().invoke(app, [command, str(path)])
    assert result.exception is None or isinstance(result.exception, SystemExit)
    return result.exit_code, result.output


def rewritten(path: Path, change: Callable[[dict[str, Any]], None]) -> None:
    file = read_model(path)
    change(file.sections)
    write_model(path, file.tensors, file.sections)


def state(sections: dict[str, Any], exact: float, rounding: float) -> None:
    claim = sections["certificate"]["claim"]
    parts = {"bound": exact + rounding, "exact": exact, "rounding": rounding}
    claim |= {"bound": parts["bound"], "parts": {"exact": exact, "rounding": rounding}}
    claim["hex"] |= {name: number.hex() for name, number in parts.items()}


def a_bound_that_a_file_only_tells(path: Path) -> None:
    """`info` printed "proved error <= 1e-30" for whatever stood in the file."""
    sw.transpile(nn.Sequential(nn.Linear(2, 3), nn.GELU()).eval(), (-1, 1)).save(path)
    rewritten(path, lambda sections: state(sections, 0.0, 1e-30))
    code, shown = told(path)
    assert code == 0 and "1e-30" in shown and "told by a file" in shown and "verify" in shown
    assert told(path, "verify")[0] == 1


def a_proof_on_a_small_part_of_the_box(path: Path) -> None:
    """A certificate on [-0.001, 0.001] was printed as if it covered [-1, 1], where the network is off by 999."""
    built = sw.approximate("sin(3*x)", {"x": (-1, 1)}, tol=1e-3, certify=False)
    target = "sin(3*x) + 1000*max(x - 0.001, 0)"
    part = certify(built.network, target, bound=1e-3, domain={"x": (-0.001, 0.001)}).certificate
    assert part is not None and "[-0.001, 0.001]" in str(part)
    assert dict(replace(built, certificate=part).rows())["proved on"].startswith("x in [-0.001, 0.001] only")
    assert "proved on" not in dict(sw.approximate("sin(3*x)", {"x": (-1, 1)}, tol=1e-3).rows())


def a_formula_with_a_carriage_return(path: Path) -> None:
    """`7 +\r    sin(3*x)` was VERIFIED, and the terminal showed sin(3*x) alone."""
    sw.approximate("7 + sin(3*x)", {"x": (-1, 1)}, tol=1e-3).save(path)
    assert sw.verify(path)

    def hide(sections: dict[str, Any]) -> None:
        for target in (sections["target"], sections["certificate"]["claim"]["reference"]["target"]):
            target["text"] = "7 +\r                sin(3*x)"

    rewritten(path, hide)
    assert not sw.verify(path)
    assert "\r" not in told(path)[1]


def a_formula_of_four_hundred_sines(path: Path) -> None:
    """verify of max(400 sines) took more than a minute: its budget was counted in boxes, not in time."""
    sw.approximate("max(sin(x), sin(2*x))", {"x": (-1, 1)}, tol=0.5, certify=True).save(path)
    text = "max(" + ", ".join(f"sin({n}*x)" for n in range(1, 401)) + ")"

    def grow(sections: dict[str, Any]) -> None:
        for target in (sections["target"], sections["certificate"]["claim"]["reference"]["target"]):
            target["text"] = text

    rewritten(path, grow)
    verdict = sw.verify(path, max_seconds=1.0)
    assert not verdict and verdict.seconds < 30.0


def a_cast_under_a_proof_in_float64(path: Path) -> None:
    """`built.network.to(torch.float32)` left "float64, proved <= 1e-10" on display, and went to a file in silence."""
    built = sw.approximate("sin(3*x)", {"x": (-1, 1)}, tol=1e-6)
    built.network.to(torch.float32)
    assert "void" in repr(built) and "proved error" not in repr(built)
    with pytest.warns(UserWarning, match="no certificate"):
        built.save(path)
    assert not sw.verify(path)


FOUND = """
transpile: operations in place without a user  transpiler/test_source.py  operations_in_place_without_a_user_are_refused
hooks, stale norms, no weights  transpiler/test_source.py  what_changes_a_module_on_the_side_is_refused_by_name
the source was never run  transpiler/test_source.py  a_difference_that_no_check_knows_is_found_by_running_the_source
transpile: observed error against our reading  transpiler/test_source.py  observed_is_against_the_source_as_it_runs
ONNX: constants of GELU replaced by ideal ones  transpiler/test_onnx.py  constants_of_a_gelu_are_carried
ONNX: slopes and limits replaced by ideal ones  transpiler/test_onnx.py  limits_and_slopes_are_those_of_the_file
ONNX: Clip(max=0), factors near 0.5  transpiler/test_onnx.py  what_is_not_represented_exactly_is_refused_with_the_reason
ONNX: damaged graphs end in tracebacks  transpiler/test_onnx.py  damaged_files_get_our_errors
a verdict was always true  checker/test_verdict.py  every_verdict_has_its_truth_value_and_its_exit_code
memorize: uint64 tokens, labels of 1e308  memory/test_verb.py  tokens_beyond_64_bits_are_refused_and_large_labels_too
memorize: float32 says late that it cannot  memory/test_build.py  what_cannot_be_stored_is_said_early
memorize: no budget of time  memory/test_build.py  a_search_ends_when_its_time_is_up
memorize: 1, True and 1.0 come back as 1  memory/test_verb.py  what_python_takes_for_equal_stays_apart
theorem B1 --width 100 ends in a traceback  theorems/test_conditions.py  impossible_sizes_name_the_condition
theorem C2: more sequences than there are  theorems/test_c_separation.py  c2_says_how_few_pairs_many_sequences_hold
theorems C4 to C6 advise what was done  theorems/test_conditions.py  no_advice_to_do_what_was_done
verify: a negative scale  checker/test_forged.py  a_mirrored_frame
verify: a part of the box taken for the whole  checker/test_forged.py  a_proof_on_a_part_of_the_box_says_so
verify: target, domain and dtype not named  checker/test_forged.py  a_verdict_names_what_it_is_about
verify: shadow tensors  checker/test_forged.py  a_second_spelling_of_a_tensor
verify: variables called e or pi  checker/test_language.py  names_that_no_variable_can_have
verify: closed forms with any bound  contracts/test_statements.py  no_leaf_says_what_it_likes
verify: control characters  checker/test_forged.py  texts_that_a_terminal_would_obey
certify: float32 gates that overflow  proof/test_extremes.py  a_run_that_overflows_is_never_proved
verify: the same  checker/test_forged.py  gates_whose_scores_overflow
certify: variables without heads overflow  proof/test_extremes.py  a_variable_that_no_head_looks_at_may_not_overflow
verify: the same  checker/test_forged.py  a_variable_without_heads_may_not_overflow_either
certify: subnormal inputs behind large slopes  proof/test_extremes.py  subnormal_inputs_are_charged_by_slopes
certify: OverflowError where a bound is infinite  proof/test_extremes.py  infinite_bounds_leave_a_question_open
certify: dropped tokens counted as rounding  proof/test_extremes.py  dropped_tokens_are_no_rounding
autocast, products, default dtype  contracts/test_settings.py  settings_outside_change_no_bit
a file's text wipes the verdict off a terminal  cli/test_screen.py  a_file_cannot_forge_a_verdict
npz: renamed, 8 TB, method 99, encrypted, damaged  targets/test_hostile_tables.py  bad_archives
npz: a bomb  targets/test_hostile_tables.py  a_bomb_is_weighed_before_it_goes_off
parquet: a column twice, a damaged page  targets/test_hostile_tables.py  parquet
jsonl: nested without end  cli/test_hostile_input.py  lines_of_json
model files: nested without end  cli/test_hostile_input.py  model_files
tokenizers: no token for unknown words  cli/test_hostile_input.py  tokenizers
odd plans and observations  result/test_hostile_sections.py  what_is_said_of_a_build_is_read_or_refused
odd closed forms  result/test_hostile_sections.py  what_a_closed_form_tells_is_read_or_refused
evaluation takes 24 GB  test_memory_limit.py  many_points_take_no_more_than_the_limit
figures are not atomic  cli/test_hostile_input.py  a_figure_that_fails_leaves_the_older_one
saving replaces links  test_atomic_writing.py  links_are_followed
saving replaces fifos and devices  test_atomic_writing.py  what_is_no_file_is_refused_and_left_alone
saving ignores umask and mode  test_atomic_writing.py  new_files_obey_the_umask_and_old_ones_keep_their_mode
stray parts of killed writers  test_atomic_writing.py  strays_of_killed_writers_go_and_those_of_living_ones_stay
"""
ROWS = [tuple(re.split(" {2,}", line)) for line in FOUND.split("\n") if line]


@pytest.mark.parametrize(("found", "file", "test"), ROWS, ids=[test for _, _, test in ROWS])
def test_what_was_found_has_its_test(found: str, file: str, test: str) -> None:
    text = (Path(__file__).parent / file).read_text("utf-8")
    assert re.search(rf"^def test_{test}\(", text, re.MULTILINE), f"no test stands for {found!r}"


CASES = (
    a_bound_that_a_file_only_tells,
    a_proof_on_a_small_part_of_the_box,
    a_formula_with_a_carriage_return,
    a_formula_of_four_hundred_sines,
    a_cast_under_a_proof_in_float64,
)


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.__name__)
def test_what_was_found_stays_mended(case: Callable[[Path], None], tmp_path: Path) -> None:
    case(tmp_path / "net.safetensors")
