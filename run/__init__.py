"""What a run is told and what it tells: settings, platforms, report, page, timeline."""
