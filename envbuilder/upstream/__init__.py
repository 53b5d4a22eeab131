"""What projects state about their releases: readers of their files, and drafts of rows."""
