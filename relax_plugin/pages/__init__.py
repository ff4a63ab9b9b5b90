"""What people look at: drawings, pages, the report, the methods."""
