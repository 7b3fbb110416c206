"""Small networks that draft from the hidden states of a target."""
