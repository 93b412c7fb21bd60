import pytest

from gpulayer.strategies import paths

MAP = paths.PathMap(root="/home/u/proj", cwd="/home/u/proj/exp", work="/h/work/job-1.1", outside=("/data/out",))


@pytest.mark.parametrize(
    ("caller", "job"),
    [
        ("/home/u/proj", "/h/work/job-1.1"),
        ("/home/u/proj/a/b.ckpt", "/h/work/job-1.1/a/b.ckpt"),
        ("/home/u/project/x", "/h/work/job-1.1/abs/home/u/project/x"),
        ("/data/out/x", "/h/work/job-1.1/abs/data/out/x"),
        ("file:///home/u/proj/a", "file:///h/work/job-1.1/a"),
    ],
)
def test_a_path_comes_back_from_where_it_went(caller: str, job: str) -> None:
    assert MAP.to_job(caller) == job
    assert MAP.to_caller(job) == caller


@pytest.mark.parametrize("path", ["a/b.ckpt", "", "s3://bucket/x", "/h/work/job-1.12/x"])
def test_what_lies_on_neither_side_is_untouched(path: str) -> None:
    assert MAP.to_caller(path) == path
    if not path.startswith("/"):
        assert MAP.to_job(path) == path


def test_a_path_that_is_the_jobs_already_stays() -> None:
    assert MAP.to_job("/h/work/job-1.1/x") == "/h/work/job-1.1/x"


def test_texts_are_translated_only_when_they_are_paths_of_ours() -> None:
    assert MAP.caller_text("/h/work/job-1.1/x") == "/home/u/proj/x"
    assert MAP.caller_text("see /h/work/job-1.1/x") == "see /h/work/job-1.1/x"
    assert MAP.job_text("/home/u/proj/x") == "/h/work/job-1.1/x"
    assert MAP.job_text("/data/out/x") == "/h/work/job-1.1/abs/data/out/x"
    assert MAP.job_text("/etc/hosts") == "/etc/hosts"


def test_realpaths_of_the_folders_are_the_folders(tmp_path) -> None:
    (tmp_path / "real").mkdir()
    (tmp_path / "link").symlink_to(tmp_path / "real")
    made = paths.between("/home/u/proj", "/home/u/proj", str(tmp_path / "link"))
    assert made.to_caller(str(tmp_path / "real" / "x.ckpt")) == "/home/u/proj/x.ckpt"


def test_the_jobs_cwd_stands_for_the_callers() -> None:
    assert MAP.job_cwd() == "/h/work/job-1.1/exp"
    assert paths.PathMap("/r", "/elsewhere", "/w").job_cwd() == "/w/abs/elsewhere"
