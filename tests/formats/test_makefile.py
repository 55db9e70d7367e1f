def test_variables_and_recipes(migrated) -> None:
    before = (
        "export CUDA_LAUNCH_BLOCKING ?= 1\nDEVICE := cuda\nrun: # all\n"
        "\t@CUDA_VISIBLE_DEVICES=0 python t.py --device cuda\n"
    )
    after = (
        "export ASCEND_LAUNCH_BLOCKING ?= 1\nDEVICE := npu\nrun: # all\n"
        "\t@ASCEND_RT_VISIBLE_DEVICES=0 python t.py --device npu\n"
    )
    assert migrated(before, "Makefile") == after
    recipe = "a:\n\techo $$CUDA_VISIBLE_DEVICES $(CUDA_VISIBLE_DEVICES)\n"
    assert migrated(recipe, "rules.mk") == recipe.replace("CUDA_VIS", "ASCEND_RT_VIS")


def test_options_and_conditions(migrated) -> None:
    before = (
        "DEVICE ?= cuda # the default\nifeq ($(DEVICE),cuda)\nFLAGS := --device cuda \\\n  --backend nccl\n"
        'else ifneq "${DEVICE}" "cuda:0"\nendif\nABOUT = the cuda of it\ncuda: all\n'
    )
    after = (
        "DEVICE ?= npu # the default\nifeq ($(DEVICE),npu)\nFLAGS := --device npu \\\n  --backend hccl\n"
        'else ifneq "${DEVICE}" "npu:0"\nendif\nABOUT = the cuda of it\ncuda: all\n'
    )
    assert migrated(before, "Makefile") == after


def test_lines_that_go_on_behind_a_carriage_return(migrated) -> None:
    before = "FLAGS = --fp16 \\\r\n  --device cuda\r\na:\r\n\tpython t.py \\\r\n\t  --device cuda\r\n"
    assert migrated(before, "Makefile") == before.replace("cuda", "npu")


def test_commands_in_variables_are_reported(migrate) -> None:
    result = migrate("GPUS := $(shell nvidia-smi -L | wc -l)\nCXX = nvcc\n", "Makefile")
    assert result.content is None
    assert [finding.rule for finding in result.findings] == ["command-nvidia-smi", "command-nvcc"]
