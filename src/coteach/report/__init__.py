"""Reports: one self-contained HTML file that works offline, on a phone, in light and dark."""
