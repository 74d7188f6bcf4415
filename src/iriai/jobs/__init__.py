"""Jobs as their users see them: drafts checked, jobs selected, shown, explained. Pure."""
