"""Linear Road: tolls and accidents on expressways, from generated position reports."""
