from pathlib import Path

from gpu2npu.report.tables import ANALYSIS_LOG, Table, write_analysis_log, write_analysis_tables


def test_tables_and_log_are_written_whatever_is_in_them(tmp_path: Path) -> None:
    write_analysis_tables({"a.csv": Table(("File", "Line"), [("caf\udce9,\n.py", 1), ("=x", 2)])}, tmp_path)
    assert (tmp_path / "a.csv").read_bytes() == b'File,Line\r\n"caf\\udce9,\n.py",1\r\n\'=x,2\r\n'
    write_analysis_log(tmp_path, ["one\ntwo", "caf\udce9"])
    assert (tmp_path / ANALYSIS_LOG).read_bytes().count(b"\n") == 2
