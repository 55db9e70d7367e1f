-- torch_npu 2.13's analysis.db (TableColumnsManager in prof_common_func/_constant.py): microseconds for steps,
-- milliseconds and megabytes for collectives.
CREATE TABLE StepTraceTime (
    deviceId INTEGER, step TEXT, computing NUMERIC, communication_not_overlapped NUMERIC, overlapped NUMERIC,
    communication NUMERIC, free NUMERIC, stage NUMERIC, bubble NUMERIC,
    communication_not_overlapped_and_exclude_receive NUMERIC, preparing NUMERIC
);
CREATE TABLE CommAnalyzerTime (
    hccl_op_name TEXT, group_name TEXT, start_timestamp NUMERIC, elapse_time NUMERIC, transit_time NUMERIC,
    wait_time NUMERIC, synchronization_time NUMERIC, idle_time NUMERIC, step TEXT, type TEXT
);
CREATE TABLE CommAnalyzerBandwidth (
    hccl_op_name TEXT, group_name TEXT, transport_type TEXT, transit_size NUMERIC, transit_time NUMERIC,
    bandwidth NUMERIC, large_packet_ratio NUMERIC, package_size NUMERIC, count NUMERIC, total_duration NUMERIC,
    step TEXT, type TEXT
);
CREATE TABLE CommAnalyzerMatrix (
    hccl_op_name TEXT, group_name TEXT, src_rank TEXT, dst_rank TEXT, transport_type TEXT, transit_size NUMERIC,
    transit_time NUMERIC, bandwidth NUMERIC, step TEXT, type TEXT, op_name TEXT
);
