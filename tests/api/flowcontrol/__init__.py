"""Tests of FlowSchemas and PriorityLevelConfigurations."""
