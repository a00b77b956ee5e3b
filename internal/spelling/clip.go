package spelling

// Clip shortens a text that somebody else wrote for use in an error.
func Clip(text string) string {
	const limit = 60
	if len(text) <= limit {
		return text
	}
	return Shorten(text, limit) + "…"
}

// Shorten returns the first bytes of a longer text, at most limit, and cuts no
// character in two.
func Shorten(text string, limit int) string {
	for limit > 0 && text[limit]&0xC0 == 0x80 {
		limit--
	}
	return text[:limit]
}
