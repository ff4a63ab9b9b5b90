"""Regions: how far each changed cell of a counterfactual may go while its goal still holds, proved or tested."""
