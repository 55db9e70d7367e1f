-- Those of the host and of memory are torch_npu 2.13's (TableColumnsManager in prof_common_func/_constant.py), those of
-- the device CANN's (docs/zh/msprof_db.md of its msprof). Times are nanoseconds, sizes bytes.
CREATE TABLE META_DATA (name TEXT, value TEXT);
CREATE TABLE HOST_INFO (hostUid TEXT, hostName TEXT);
CREATE TABLE NPU_INFO (id INTEGER, name TEXT);
CREATE TABLE RANK_DEVICE_MAP (rankId INTEGER, deviceId INTEGER);
CREATE TABLE SESSION_TIME_INFO (startTimeNs INTEGER, endTimeNs INTEGER);
CREATE TABLE STEP_TIME (id INTEGER, startNs INTEGER, endNs INTEGER);
CREATE TABLE STRING_IDS (id INTEGER, value TEXT);
CREATE TABLE ENUM_API_TYPE (id INTEGER, name TEXT);
CREATE TABLE ENUM_HCCL_DATA_TYPE (id INTEGER, name TEXT);
CREATE TABLE ENUM_HCCL_LINK_TYPE (id INTEGER, name TEXT);
CREATE TABLE ENUM_HCCL_TRANSPORT_TYPE (id INTEGER, name TEXT);
CREATE TABLE ENUM_MEMCPY_OPERATION (id INTEGER, name TEXT);
CREATE TABLE PYTORCH_API (
    startNs TEXT, endNs TEXT, globalTid INTEGER, connectionId INTEGER, name INTEGER, sequenceNumber INTEGER,
    fwdThreadId INTEGER, inputDtypes INTEGER, inputShapes INTEGER, callchainId INTEGER, type INTEGER
);
CREATE TABLE CONNECTION_IDS (id INTEGER, connectionId INTEGER);
CREATE TABLE PYTORCH_CALLCHAINS (id INTEGER, stack INTEGER, stackDepth INTEGER);
CREATE TABLE CANN_API (
    startNs INTEGER, endNs INTEGER, type INTEGER, globalTid INTEGER, connectionId INTEGER, name INTEGER
);
CREATE TABLE TASK (
    startNs INTEGER, endNs INTEGER, deviceId INTEGER, connectionId INTEGER, globalTaskId INTEGER, globalPid INTEGER,
    taskType INTEGER, contextId INTEGER, streamId INTEGER, taskId INTEGER, modelId INTEGER
);
CREATE TABLE COMPUTE_TASK_INFO (
    name INTEGER, globalTaskId INTEGER, blockDim INTEGER, mixBlockDim INTEGER, taskType INTEGER, opType INTEGER,
    inputFormats INTEGER, inputDataTypes INTEGER, inputShapes INTEGER, outputFormats INTEGER, outputDataTypes INTEGER,
    outputShapes INTEGER, attrInfo INTEGER, opState INTEGER, hf32Eligible INTEGER
);
CREATE TABLE MEMCPY_INFO (globalTaskId NUMERIC, size NUMERIC, memcpyOperation NUMERIC);
CREATE TABLE COMMUNICATION_OP (
    opName INTEGER, startNs INTEGER, endNs INTEGER, connectionId INTEGER, groupName INTEGER, opId INTEGER,
    relay INTEGER, retry INTEGER, dataType INTEGER, algType INTEGER, count NUMERIC, opType INTEGER, deviceId INTEGER
);
CREATE TABLE COMMUNICATION_TASK_INFO (
    name INTEGER, globalTaskId INTEGER, taskType INTEGER, planeId INTEGER, groupName INTEGER, notifyId INTEGER,
    rdmaType INTEGER, srcRank INTEGER, dstRank INTEGER, transportType INTEGER, size INTEGER, dataType INTEGER,
    linkType INTEGER, opId INTEGER, isMaster INTEGER, bandwidth NUMERIC
);
CREATE TABLE MSTX_EVENTS (
    startNs INTEGER, endNs INTEGER, eventType INTEGER, rangeId INTEGER, category INTEGER, message INTEGER,
    globalTid INTEGER, endGlobalTid INTEGER, domainId INTEGER, connectionId INTEGER
);
CREATE TABLE MEMORY_RECORD (
    component INTEGER, timestamp INTEGER, totalAllocated INTEGER, totalReserved INTEGER, totalActive INTEGER,
    streamPtr INTEGER, deviceId INTEGER
);
CREATE TABLE OP_MEMORY (
    name INTEGER, size INTEGER, allocationTime INTEGER, releaseTime INTEGER, activeReleaseTime INTEGER,
    duration INTEGER, activeDuration INTEGER, allocationTotalAllocated INTEGER, allocationTotalReserved INTEGER,
    allocationTotalActive INTEGER, releaseTotalAllocated INTEGER, releaseTotalReserved INTEGER,
    releaseTotalActive INTEGER, streamPtr INTEGER, deviceId INTEGER
);
INSERT INTO ENUM_API_TYPE VALUES
    (20000, 'acl'), (15000, 'model'), (10000, 'node'), (5500, 'communication'), (5000, 'runtime'), (50001, 'op'),
    (50002, 'queue'), (50003, 'trace'), (50004, 'mstx');
INSERT INTO ENUM_HCCL_DATA_TYPE VALUES
    (0, 'INT8'), (1, 'INT16'), (2, 'INT32'), (3, 'FP16'), (4, 'FP32'), (5, 'INT64'), (6, 'UINT64'), (7, 'UINT8'),
    (8, 'UINT16'), (9, 'UINT32'), (10, 'FP64'), (11, 'BFP16'), (12, 'INT128'), (255, 'RESERVED'), (65534, 'N/A'),
    (65535, 'INVALID_TYPE');
INSERT INTO ENUM_HCCL_LINK_TYPE VALUES
    (0, 'ON_CHIP'), (1, 'HCCS'), (2, 'PCIE'), (3, 'ROCE'), (4, 'SIO'), (5, 'HCCS_SW'), (6, 'STANDARD_ROCE'),
    (255, 'RESERVED'), (65534, 'N/A'), (65535, 'INVALID_TYPE');
INSERT INTO ENUM_HCCL_TRANSPORT_TYPE VALUES
    (0, 'SDMA'), (1, 'RDMA'), (2, 'LOCAL'), (255, 'RESERVED'), (65534, 'N/A'), (65535, 'INVALID_TYPE');
INSERT INTO ENUM_MEMCPY_OPERATION VALUES
    (0, 'host to host'), (1, 'host to device'), (2, 'device to host'), (3, 'device to device'), (65535, 'other');
