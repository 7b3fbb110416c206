"""Everything that uses the engine and that the engine never imports: tools that measure, prove, record and train."""
