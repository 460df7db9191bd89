"""srmc inside other libraries, in their own forms; each module needs the library of its name."""
