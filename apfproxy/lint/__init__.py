"""Judges FlowSchemas and PriorityLevelConfigurations that are valid: what will not do as meant."""
