"""How many labels are wrong, and how: from the labels as given and a short training on them."""
