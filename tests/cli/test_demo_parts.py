"""The demo's own functions, on the real scans that pydicom ships."""

import json
import pickle
import shutil
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from phalanx.demo import Picture, Slice, View, denoise, render
from phalanx.demo.annotating import annotate, scale_bar
from phalanx.demo.decoding import scanned_part, sides_of
from phalanx.demo.filtering import noise_of
from phalanx.demo.finding import Scan, Skipped, find_scans, shipped_scans
from phalanx.demo.lighting import ambient, illuminate, shadow
from phalanx.demo.planning import USUAL_TASKS, plan, view_of
from phalanx.demo.reading import shots_in, slices
from phalanx.demo.rendering import AREA, limits_of, projected, window_text, windowed
from phalanx.demo.sheet import MOST, choose, contact_sheet
from phalanx.errors import PhalanxError
from PIL import Image
from pydicom import Dataset

SPINE = "CT_small.dcm"
VESSEL = "MR_small.dcm"
HEART = "examples_ybr_color.dcm"


def slice_of(name: str, number: int = 0) -> Slice:
    shots = shots_in(shipped_scans() / name, tasks=number + 1)
    return list(slices(shots))[number]


def folder_with(place: Path, *names: str) -> Path:
    for name in names:
        shutil.copy(shipped_scans() / name, place / name)
    return place


def test_the_shipped_scans_are_a_ct_an_mr_and_one_of_many_frames() -> None:
    scans = find_scans(shipped_scans(), Skipped())
    assert {"CT", "MR", "US"} <= {scan.modality for scan in scans}
    assert max(scan.frames for scan in scans) == 30


def test_a_scan_stored_in_several_files_is_one_scan() -> None:
    scans = find_scans(shipped_scans(), Skipped())
    (vessel,) = [scan for scan in scans if scan.name == "MR_small"]
    assert len(vessel.copies) > 5
    assert vessel.copies[0].name == VESSEL


def test_the_whole_job_is_a_stream_of_one_to_two_hundred_tasks() -> None:
    assert 100 <= len(shots_in()) <= 200


def test_what_is_no_scan_is_left_out_with_the_reason(tmp_path: Path) -> None:
    folder_with(tmp_path, SPINE, "rtdose.dcm", "liver_1frame.dcm")
    (tmp_path / "notes.txt").write_text("no picture")
    (tmp_path / "broken.dcm").write_bytes((shipped_scans() / VESSEL).read_bytes()[:700])
    skipped = Skipped()
    assert [scan.name for scan in find_scans(tmp_path, skipped)] == ["CT_small"]
    notes = "\n".join(skipped.lines())
    for name in ("rtdose.dcm", "liver_1frame.dcm", "notes.txt", "broken.dcm"):
        assert name in notes


def test_a_folder_without_any_scan_says_what_to_do(tmp_path: Path) -> None:
    (tmp_path / "notes.txt").write_text("no picture")
    with pytest.raises(PhalanxError, match=r"no scan in .*(\n|.)*name a folder(\n|.)*notes\.txt"):
        shots_in(tmp_path)


def test_a_frame_cut_short_is_left_out_and_the_stream_goes_on(tmp_path: Path) -> None:
    folder_with(tmp_path, VESSEL, "MR_truncated.dcm")
    (tmp_path / VESSEL).unlink()
    folder_with(tmp_path, SPINE)
    skipped = Skipped()
    assert {slice_.scan for slice_ in slices(shots_in(tmp_path, 4, skipped), skipped)} == {"CT_small"}
    assert any("cannot be decoded" in line and "MR_truncated" in line for line in skipped.lines())


def test_slices_are_decoded_when_they_are_asked_for(tmp_path: Path) -> None:
    folder_with(tmp_path, SPINE, VESSEL)
    skipped = Skipped()
    stream = slices(shots_in(tmp_path, 2), skipped)
    assert next(stream).scan == "CT_small"
    (tmp_path / VESSEL).unlink()
    assert list(stream) == []
    assert any(VESSEL in line for line in skipped.lines())


def test_a_ct_is_in_hounsfield_units() -> None:
    pixels = slice_of(SPINE).pixels
    assert pixels.shape == (1, 128, 128)
    assert -1024 <= pixels.min() < -700  # the lungs' air
    assert 500 < pixels.max() < 3000  # bone


def test_the_scanners_text_around_an_ultrasound_is_cut_away() -> None:
    pixels = slice_of(HEART).pixels
    assert pixels.shape[1] < 240
    assert pixels.shape[2] < 320


def test_the_scanned_part_is_the_largest_bright_area() -> None:
    plane = np.zeros((40, 60), np.float32)
    plane[10:30, 20:50] = 1
    plane[2:4, 2:8] = 5
    rows, columns = scanned_part(plane)
    assert abs(rows.start - 10) <= 2
    assert abs(columns.stop - 50) <= 2


def test_a_projection_looks_through_the_frames_before_it() -> None:
    shots = [shot for shot in shots_in(shipped_scans() / HEART) if shot.view.projection]
    layers = [len(slice_.pixels) for slice_ in slices(shots[:5])]
    assert layers == sorted(layers)
    assert layers[-1] == 5


def test_projecting_takes_the_brightest_and_dims_what_is_far() -> None:
    slab = np.zeros((3, 1, 2), np.float32)
    slab[0, 0, 0] = slab[2, 0, 1] = 10
    assert projected(slab)[0].tolist() == [pytest.approx(7), 10]


def test_planning_gives_every_frame_two_views_and_shares_what_is_asked_for() -> None:
    still, film = Scan((Path("a"),), "CT", "CT", 1), Scan((Path("b"),), "US", "US", 80)
    shots = plan([still, film])
    assert all(sum(shot.frame == frame for shot in shots if shot.scan == film) == 2 for frame in range(80))
    assert sum(shot.scan == still for shot in shots) == USUAL_TASKS // 2
    for tasks in (1, 2, 7, 500):
        assert len(plan([still, film], tasks)) == tasks


def test_rounds_of_views_are_lit_from_different_sides() -> None:
    scan = Scan((Path("a"),), "CT", "CT", 1)
    views = [view_of(scan, number) for number in range(16)]
    assert len({view.name for view in views}) == 4
    assert len({view.light for view in views}) == 4


def test_denoising_brings_a_noisy_slice_nearer_to_the_clean_one() -> None:
    clean = denoise(slice_of(VESSEL))
    noise = np.random.default_rng(0).normal(0, 40, clean.pixels.shape).astype(np.float32)
    noisy = replace(clean, pixels=clean.pixels + noise)
    after = denoise(noisy).pixels - clean.pixels
    assert np.std(after) < 0.7 * np.std(noise)
    assert after.dtype == np.float32


def test_the_noise_is_measured() -> None:
    noise = np.random.default_rng(1).normal(0, 3, (1, 200, 200)).astype(np.float32)
    assert noise_of(noise) == pytest.approx(3, rel=0.1)


def test_denoising_leaves_an_empty_slice_alone() -> None:
    empty = replace(slice_of(VESSEL), pixels=np.zeros((1, 64, 64), np.float32))
    assert not denoise(empty).pixels.any()


def test_windowing_maps_the_window_to_black_and_white() -> None:
    slice_ = replace(slice_of(SPINE), window=(-100.0, 300.0), view=View("plain"))
    plane = np.array([[-1000, -100, 100, 300, 2000]], np.float32)
    limits = limits_of(plane, slice_)
    assert windowed(plane, limits)[0].tolist() == [0, 0, 0.5, 1, 1]
    assert window_text(limits, slice_) == "C 100 W 400 HU"


def test_a_scan_has_the_size_of_its_pixels_and_the_sides_of_its_patient() -> None:
    vessel, heart, tilted = map(slice_of, (VESSEL, HEART, "J2K_pixelrep_mismatch.dcm"))
    assert (vessel.pixel, vessel.sides) == (0.3125, ("R", "L", "A", "P"))
    assert heart.pixel is not None
    assert 0.1 < heart.pixel < 2
    assert heart.sides is None
    assert tilted.sides == ("R", "L", "A", "P")
    sagittal = Dataset()
    sagittal.ImageOrientationPatient = [0, 1, 0, 0, 0, -1]
    assert sides_of(sagittal) == ("A", "P", "H", "F")
    assert sides_of(Dataset()) is None


@pytest.mark.parametrize(
    ("width", "pixel", "text", "millimetres"),
    [(448, 0.3125, "2 cm", 20), (448, 2.26, "20 cm", 200), (448, 0.01, "1 mm", 1), (448, 0.1, "1 cm", 10)],
)
def test_a_scale_bar_is_a_round_length(width: int, pixel: float, text: str, millimetres: float) -> None:
    length, told = scale_bar(width, pixel)
    assert told == text
    assert length * pixel == pytest.approx(millimetres, rel=0.05)
    assert length <= width / 4 + 1


def test_a_picture_is_annotated_at_its_edges() -> None:
    plain = Image.new("RGB", (200, 100), (90, 90, 90))
    image = plain.copy()
    annotate(image, "C 40 W 400 HU", 1.0, ("R", "L", "A", "P"))
    changed = np.any(np.asarray(image) != np.asarray(plain), axis=2)
    for rows, columns in (
        (np.s_[80:], np.s_[:150]),  # the window
        (np.s_[60:], np.s_[150:]),  # the scale
        (np.s_[35:65], np.s_[:30]),
        (np.s_[35:60], np.s_[170:]),
        (np.s_[:30], np.s_[85:115]),
        (np.s_[70:], np.s_[85:115]),
    ):
        assert changed[rows, columns].any()
    assert not changed[35:65, 40:160].any()


@pytest.mark.parametrize("name", [SPINE, VESSEL, HEART])
@pytest.mark.parametrize("number", range(4))
def test_every_view_renders_a_colour_picture_that_shows_something(name: str, number: int) -> None:
    slice_ = slice_of(name, number)
    picture = render(denoise(slice_))
    pixels = picture.pixels()
    assert pixels.shape[2] == 3
    assert pixels.std() > 10
    if not slice_.view.oblique:
        assert pixels.shape[0] * pixels.shape[1] == pytest.approx(AREA, rel=0.02)


def test_rendering_is_repeatable_and_depends_on_the_light() -> None:
    slice_ = slice_of(SPINE, 1)
    other = replace(slice_, view=replace(slice_.view, light=slice_.view.light + 180))
    assert render(slice_).png == render(slice_).png
    assert render(slice_).png != render(other).png


def test_pixels_that_are_not_square_keep_the_bodys_shape() -> None:
    slice_ = replace(slice_of(VESSEL), aspect=2.0)
    rows, columns, _ = render(slice_).pixels().shape
    assert rows / columns == pytest.approx(2, rel=0.02)


def test_the_floor_of_a_pit_sees_less_of_the_sky() -> None:
    pit = np.full((80, 80), 30, np.float32)
    pit[36:44, 36:44] = 0
    sky = ambient(pit)
    assert sky[40, 40] < 0.5
    assert sky[5, 5] == pytest.approx(1)


def test_a_wall_throws_its_shadow_away_from_the_light() -> None:
    wall = np.zeros((60, 60), np.float32)
    wall[:, 30] = 20
    lit = shadow(wall, azimuth=0)  # light from the right
    assert lit[30, 20] < 0.5
    assert lit[30, 40] == 1


def test_a_slope_towards_the_light_is_brighter() -> None:
    hill = np.abs(np.arange(-40, 40, dtype=np.float32))[None, :].repeat(80, axis=0) * np.float32(-0.5)
    brightness, _ = illuminate(hill, azimuth=180)  # light from the left
    assert brightness[40, 20] > brightness[40, 60]


def test_the_stages_take_pixels_that_cannot_be_written_to() -> None:
    slice_ = slice_of(HEART, 1)
    slice_.pixels.setflags(write=False)
    assert render(denoise(slice_)).png == render(denoise(slice_of(HEART, 1))).png


def test_the_stages_are_found_by_name_on_another_machine() -> None:
    for stage in (denoise, render):
        assert pickle.loads(pickle.dumps(stage)) is stage
        assert stage.__module__.startswith("phalanx.demo.")


def pictures_of(scans: int, each: int) -> list[Picture]:
    view = View("plain")
    return [
        Picture(b"", scan * each + number, f"scan{scan}", "CT head", number + 1, each, view)
        for scan in range(scans)
        for number in range(each)
    ]


@pytest.mark.parametrize(("scans", "each"), [(1, 1), (3, 50), (9, 12), (200, 2)])
def test_the_sheet_shows_some_of_every_scan_that_finds_room(scans: int, each: int) -> None:
    chosen = choose(pictures_of(scans, each))
    assert len({picture.scan for picture in chosen}) == min(scans, MOST)
    assert len(chosen) == len(set(chosen)) <= MOST


def test_the_contact_sheet_is_a_picture_beside_the_others(tmp_path: Path) -> None:
    pictures = [render(slice_of(SPINE, number)) for number in range(3)]
    for picture in pictures:
        picture.save(tmp_path)
    with Image.open(contact_sheet(pictures, tmp_path, "three pictures")) as sheet:
        assert sheet.width > 1000


def test_the_summary_for_programs_has_everything_the_table_has(capsys: pytest.CaptureFixture[str]) -> None:
    px = pytest.importorskip("phalanx")
    from phalanx.cli import show
    from phalanx.demo.run import Report

    levels, why, spent = ("private",) * 3, ("policy links",) * 3, {"clear": (0, 0.0), "private": (40, 0.125)}
    of_link = (0.125, 0.125, levels, why, False, spent)
    one = px.InterpreterSummary("lab:7400/1", "lab", 7, "private", "working", 3, 10, 20, 0, 1.5, *of_link, None)
    summary = px.Summary(3, 2.0, 0, 0, 0, 0, None, [one])
    report = Report(Path("out/contact-sheet.png"), 1, summary, 3.0, 0, ["1 without a picture: x"])
    facts = json.loads(show.as_json(report))
    assert facts["tasks"] == 3
    assert facts["speedup"] == 1.5
    assert facts["protection"] == 0.25
    assert facts["interpreters"][0]["level"] == "private"
    assert facts["bill"]["lines"] == [{"level": "private", "bytes": 40, "protection": 0.25}]
    assert facts["bill"]["cost"] == 0.25
    show.tables(report)
    shown = capsys.readouterr().out
    assert all(word in shown for word in ("speedup", "lab:7400/1", "private", "1 without a picture: x"))
    other = replace(one, name="lab:7400/2", state="lost", cause="machine")
    show.tables(replace(report, summary=replace(summary, interpreters=[one, other])))
    shown = capsys.readouterr().out
    assert "all: link private, protection 250.0 ms" in shown
    assert "lost: machine" in shown
