package knowledge

// MemoryLeftIn is how much memory the control groups leave.
var MemoryLeftIn = memoryLeftIn
