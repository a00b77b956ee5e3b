package pdftext

// glyphCharacters reads a font file of the kind TrueType and returns which character each glyph is for, for
// fonts of which the PDF does not say that.
func glyphCharacters(file []byte) map[int]rune {
	if len(file) < 12 {
		return nil
	}
	var table []byte
	for i := range bigEndian(file[4:6]) {
		at := 12 + 16*i
		if at+16 > len(file) {
			return nil
		}
		if string(file[at:at+4]) == "cmap" {
			table = part(file, bigEndian(file[at+8:at+12]), bigEndian(file[at+12:at+16]))
		}
	}
	if len(table) < 4 {
		return nil
	}
	found, best := map[int]rune{}, 0
	for i := range bigEndian(table[2:4]) {
		entry := part(table, 4+8*i, 8)
		if entry == nil {
			break
		}
		platform, kind := bigEndian(entry[:2]), bigEndian(entry[2:4])
		unicode := platform == 0 || platform == 3 && (kind == 1 || kind == 10)
		if !unicode || kind < best {
			continue
		}
		if all := charactersIn(part(table, bigEndian(entry[4:8]), len(table))); len(all) > 0 {
			found, best = all, kind
		}
	}
	return found
}

// part is so many bytes from there, or what there is of them.
func part(data []byte, at, size int) []byte {
	if at < 0 || size < 0 || at >= len(data) {
		return nil
	}
	return data[at:min(len(data), at+size)]
}

func charactersIn(table []byte) map[int]rune {
	found := map[int]rune{}
	left := 200_000 // characters to look at: ranges may overlap
	add := func(c, glyph int) {
		if old, known := found[glyph]; glyph > 0 && (!known || rune(c) < old && old >= 0xe000) { //nolint:gosec // below 1<<21
			found[glyph] = rune(c) //nolint:gosec // as above
		}
		left--
	}
	switch {
	case len(table) >= 16 && bigEndian(table[:2]) == 4:
		n := bigEndian(table[6:8]) / 2
		word := func(array, i int) int {
			at := 14 + 2*(n*array+i)
			if array > 0 {
				at += 2
			}
			if at+2 > len(table) {
				return 0
			}
			return bigEndian(table[at : at+2])
		}
		for i := 0; i < n && left > 0; i++ {
			last, first, delta, offset := word(0, i), word(1, i), word(2, i), word(3, i)
			for c := first; c <= last && c < 0xffff && left > 0; c++ {
				glyph := c
				if offset > 0 {
					at := 16 + 2*(3*n+i) + offset + 2*(c-first)
					if at+2 > len(table) {
						break
					}
					glyph = bigEndian(table[at : at+2])
					if glyph == 0 {
						left--
						continue
					}
				}
				add(c, (glyph+delta)&0xffff)
			}
		}
	case len(table) >= 16 && bigEndian(table[:2]) == 12:
		for at := 16; at+12 <= len(table) && left > 0; at += 12 {
			first, last, glyph := bigEndian(table[at:at+4]), bigEndian(table[at+4:at+8]), bigEndian(table[at+8:at+12])
			for c := first; c <= last && c <= 0x10ffff && left > 0; c++ {
				add(c, glyph+c-first)
			}
		}
	}
	return found
}
