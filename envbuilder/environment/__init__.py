"""Which environments exist, and every value of one."""
