"""From runs to numbers and figures."""
