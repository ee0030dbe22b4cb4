"""FlowSchemas and PriorityLevelConfigurations: read, validated, typed.  Pure."""
