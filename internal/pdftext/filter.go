package pdftext

import (
	"bytes"
	"cmp"
	"compress/flate"
	"io"

	"golang.org/x/image/tiff/lzw"
)

// unpack returns the bytes of a stream, decrypted and through its filters, as far as they can be read. Of
// pictures that is nothing.
func unpack(d *Document, s *stream) []byte {
	raw := s.raw
	if d.crypt != nil {
		raw = d.crypt.stream(s)
	}
	return unfilter(d, s.dict, raw)
}

// jpegOf returns the JPEG that a picture is; nil if it is of another kind, or drawn in other colours.
func jpegOf(d *Document, s *stream) []byte {
	filters := listOf(d, s.dict["Filter"], s.dict["F"])
	if len(filters) == 0 || s.dict["Decode"] != nil {
		return nil
	}
	kind, _ := d.resolve(filters[len(filters)-1]).(name)
	if kind != "DCTDecode" && kind != "DCT" {
		return nil
	}
	raw := s.raw
	if d.crypt != nil {
		raw = d.crypt.stream(s)
	}
	around := dict{"Filter": filters[:len(filters)-1], "DecodeParms": listOf(d, s.dict["DecodeParms"], s.dict["DP"])}
	return unfilter(d, around, raw)
}

// unpackPlain is unpack for what is never encrypted.
func unpackPlain(d *Document, s *stream) []byte { return unfilter(d, s.dict, s.raw) }

func unfilter(d *Document, head dict, raw []byte) []byte {
	filters, parameters := listOf(d, head["Filter"], head["F"]), listOf(d, head["DecodeParms"], head["DP"])
	for i, f := range filters {
		if i > 8 {
			return nil
		}
		var p dict
		if i < len(parameters) {
			p = d.dict(parameters[i])
		}
		kind, _ := d.resolve(f).(name)
		switch kind {
		case "FlateDecode", "Fl":
			raw = unpredict(d, p, inflate(d, raw))
		case "LZWDecode", "LZW":
			raw = unpredict(d, p, readAll(d, lzw.NewReader(bytes.NewReader(raw), lzw.MSB, 8)))
		case "ASCIIHexDecode", "AHx":
			l := lexer{data: append([]byte("<"), raw...)}
			raw = []byte(l.hex())
		case "ASCII85Decode", "A85":
			raw = ascii85(raw)
		case "RunLengthDecode", "RL":
			raw = runs(d, raw)
		case "Crypt":
		default:
			return nil
		}
		if d.ctx.Err() != nil || d.unpacked > maxUnpacked {
			return nil
		}
	}
	return raw
}

// listOf is one thing or an array of them.
func listOf(d *Document, long, short any) array {
	long = cmp.Or(long, short)
	switch o := d.resolve(long).(type) {
	case nil:
		return nil
	case array:
		return o
	default:
		return array{o}
	}
}

// readAll reads what there is until the first fault, within the limits.
func readAll(d *Document, from io.Reader) []byte {
	var out bytes.Buffer
	for d.ctx.Err() == nil && out.Len() < maxUnpackedStream && d.unpacked < maxUnpacked {
		n, err := io.CopyN(&out, from, 1<<20)
		d.unpacked += n
		if err != nil {
			break
		}
	}
	return out.Bytes()
}

func inflate(d *Document, raw []byte) []byte {
	if len(raw) < 2 {
		return nil
	}
	plain := readAll(d, flate.NewReader(bytes.NewReader(raw[2:]))) // a wrong checksum does not matter
	if len(plain) == 0 {
		plain = readAll(d, flate.NewReader(bytes.NewReader(raw))) // some leave the header out
	}
	return plain
}

// unpredict undoes the predictor of PNG or TIFF.
func unpredict(d *Document, p dict, data []byte) []byte {
	predictor, _ := d.int(p["Predictor"])
	if predictor < 2 {
		return data
	}
	columns, colors, bits := 1, 1, 8
	for key, to := range map[name]*int{"Columns": &columns, "Colors": &colors, "BitsPerComponent": &bits} {
		if n, ok := d.int(p[key]); ok && n > 0 {
			*to = n
		}
	}
	if columns > len(data)+1 || colors > 64 || bits > 16 {
		return nil
	}
	pixel := max(1, colors*bits/8)
	row := (columns*colors*bits + 7) / 8
	if predictor == 2 {
		for at := 0; bits == 8 && at+row <= len(data); at += row {
			for i := pixel; i < row; i++ {
				data[at+i] += data[at+i-pixel]
			}
		}
		return data
	}
	var out []byte
	before := make([]byte, min(row, len(data)))
	for len(data) > 1 {
		kind, line := data[0], data[1:min(len(data), row+1)]
		data = data[len(line)+1:]
		for i := range line {
			var left, up, corner byte
			up = before[i]
			if i >= pixel {
				left, corner = line[i-pixel], before[i-pixel]
			}
			switch kind {
			case 1:
				line[i] += left
			case 2:
				line[i] += up
			case 3:
				line[i] += byte((int(left) + int(up)) / 2)
			case 4:
				line[i] += paeth(left, up, corner)
			}
		}
		out = append(out, line...)
		copy(before, line)
	}
	return out
}

func paeth(left, up, corner byte) byte {
	distance := func(a, b int) int { return max(a-b, b-a) }
	estimate := int(left) + int(up) - int(corner)
	toLeft, toUp, toCorner := distance(estimate, int(left)), distance(estimate, int(up)), distance(estimate, int(corner))
	switch {
	case toLeft <= toUp && toLeft <= toCorner:
		return left
	case toUp <= toCorner:
		return up
	}
	return corner
}

func ascii85(raw []byte) (out []byte) {
	var group [5]byte
	n := 0
	flush := func() {
		if n < 2 {
			return
		}
		for i := n; i < 5; i++ {
			group[i] = 84
		}
		value := uint32(0)
		for _, c := range group {
			value = value*85 + uint32(c)
		}
		for i := range n - 1 {
			out = append(out, byte(value>>(24-8*i)))
		}
		n = 0
	}
	for _, c := range raw {
		switch {
		case c == '~':
			flush()
			return out
		case c == 'z' && n == 0:
			out = append(out, 0, 0, 0, 0)
		case c >= '!' && c <= 'u':
			group[n] = c - '!'
			n++
			if n == 5 {
				flush()
			}
		}
	}
	flush()
	return out
}

func runs(d *Document, raw []byte) (out []byte) {
	for i := 0; i < len(raw) && len(out) < maxUnpackedStream; {
		n := int(raw[i])
		i++
		switch {
		case n == 128:
			return out
		case n < 128:
			end := min(i+n+1, len(raw))
			out = append(out, raw[i:end]...)
			i = end
		case i < len(raw):
			out = append(out, bytes.Repeat(raw[i:i+1], 257-n)...)
			i++
		}
	}
	d.unpacked += int64(len(out))
	return out
}
