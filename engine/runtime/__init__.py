"""An engine for one pair on one device, the thread that owns it, and its calibration."""
