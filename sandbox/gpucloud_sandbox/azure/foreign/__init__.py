"""What only foreign tools use: templates, scale sets, parts of resources as resources, and ``az`` itself."""
