"""Run folders: what a run leaves behind, and how a run is started, continued and finished."""
