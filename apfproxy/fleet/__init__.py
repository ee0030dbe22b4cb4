"""One limit shared by the members of a fleet: functions of the record, the member and the time."""
