package pdftext

import (
	"bytes"
	"crypto/aes"
	"crypto/cipher"
	"crypto/md5" //nolint:gosec // the format asks for it
	"crypto/rc4" //nolint:gosec // the format asks for it
	"crypto/sha256"
	"crypto/sha512"
	"encoding/binary"
)

// crypt decrypts what a file has encrypted for everybody: its password is empty.
type crypt struct {
	key         []byte
	streams     method
	texts       method
	hidesLayout bool // the metadata is encrypted, too
}

type method int

const (
	plain method = iota
	oldRC4
	aes128
	aes256
)

// padding stands for a password that is empty.
var padding = []byte("\x28\xBF\x4E\x5E\x4E\x75\x8A\x41\x64\x00\x4E\x56\xFF\xFA\x01\x08" +
	"\x2E\x2E\x00\xB6\xD0\x68\x3E\x80\x2F\x0C\xA9\xFE\x64\x53\x69\x7A")

// unlock finds the key of a file.
func unlock(d *Document, e dict) (*crypt, error) {
	version, _ := d.int(e["V"])
	revision, _ := d.int(e["R"])
	owner, _ := d.resolve(e["O"]).(text)
	user, _ := d.resolve(e["U"]).(text)
	permissions, _ := d.int(e["P"])
	bits := 40
	if n, ok := d.int(e["Length"]); ok && n >= 40 && n <= 256 {
		bits = n
	}
	c := &crypt{streams: oldRC4, texts: oldRC4, hidesLayout: d.resolve(e["EncryptMetadata"]) != false}
	if d.resolve(e["Filter"]) != name("Standard") || version < 1 || version > 5 || len(user) < 32 || len(owner) < 32 {
		return nil, ErrPassword
	}
	if version >= 4 {
		filters := d.dict(e["CF"])
		c.streams, c.texts = methodOf(d, filters, e["StmF"]), methodOf(d, filters, e["StrF"])
		bits = max(bits, 128)
	}
	if version == 1 {
		bits = 40
	}
	if revision >= 5 {
		c.key = keyOfAES256(d, e, revision, []byte(user))
		if c.key == nil {
			return nil, ErrPassword
		}
		return c, nil
	}
	hash := md5.New() //nolint:gosec // as above
	hash.Write(padding)
	hash.Write([]byte(owner[:32]))
	_ = binary.Write(hash, binary.LittleEndian, int32(permissions)) //nolint:gosec // it is one
	hash.Write(fileID(d))
	if revision >= 4 && !c.hidesLayout {
		hash.Write([]byte{255, 255, 255, 255})
	}
	sum := hash.Sum(nil)
	size := min(bits/8, 16)
	if revision >= 3 {
		for range 50 {
			again := md5.Sum(sum[:size]) //nolint:gosec // as above
			sum = again[:]
		}
	} else {
		size = 5
	}
	c.key = sum[:size]
	if !c.opens(d, revision, []byte(user)) {
		return nil, ErrPassword
	}
	return c, nil
}

// fileID is the first of the two names that a file has.
func fileID(d *Document) []byte {
	ids := d.array(d.trailer["ID"])
	if len(ids) == 0 {
		return nil
	}
	id, _ := d.resolve(ids[0]).(text)
	return []byte(id)
}

// opens reports whether the empty password is the user's.
func (c *crypt) opens(d *Document, revision int, user []byte) bool {
	if revision < 3 {
		return bytes.Equal(withRC4(c.key, padding), user[:32])
	}
	hash := md5.New() //nolint:gosec // as above
	hash.Write(padding)
	hash.Write(fileID(d))
	sum := hash.Sum(nil)
	for i := range 20 {
		key := bytes.Clone(c.key)
		for j := range key {
			key[j] ^= byte(i)
		}
		sum = withRC4(key, sum)
	}
	return bytes.Equal(sum[:16], user[:16])
}

func methodOf(d *Document, filters dict, which any) method {
	key, _ := d.resolve(which).(name)
	switch d.dict(filters[key])["CFM"] {
	case name("V2"):
		return oldRC4
	case name("AESV2"):
		return aes128
	case name("AESV3"):
		return aes256
	}
	return plain
}

// keyOfAES256 decrypts the key of a file with the empty password, as PDF 2.0 says.
func keyOfAES256(d *Document, e dict, revision int, user []byte) []byte {
	sealed, _ := d.resolve(e["UE"]).(text)
	if len(user) < 48 || len(sealed) < 32 || !bytes.Equal(hashOfAES256(revision, user[32:40]), user[:32]) {
		return nil
	}
	block, err := aes.NewCipher(hashOfAES256(revision, user[40:48]))
	if err != nil {
		return nil
	}
	key := make([]byte, 32)
	cipher.NewCBCDecrypter(block, make([]byte, aes.BlockSize)).CryptBlocks(key, []byte(sealed)[:32])
	return key
}

func hashOfAES256(revision int, salt []byte) []byte {
	first := sha256.Sum256(salt)
	k := first[:]
	if revision < 6 {
		return k
	}
	for round := 0; ; round++ {
		block, err := aes.NewCipher(k[:16])
		if err != nil {
			return nil
		}
		e := bytes.Repeat(k, 64)
		cipher.NewCBCEncrypter(block, k[16:32]).CryptBlocks(e, e)
		rest := 0
		for _, c := range e[:16] {
			rest += int(c)
		}
		switch rest % 3 {
		case 0:
			sum := sha256.Sum256(e)
			k = sum[:]
		case 1:
			sum := sha512.Sum384(e)
			k = sum[:]
		default:
			sum := sha512.Sum512(e)
			k = sum[:]
		}
		if round >= 63 && int(e[len(e)-1]) <= round-31 {
			return k[:32]
		}
	}
}

func withRC4(key, data []byte) []byte {
	c, err := rc4.NewCipher(key) //nolint:gosec // as above
	if err != nil {
		return data
	}
	out := make([]byte, len(data))
	c.XORKeyStream(out, data)
	return out
}

// open decrypts what belongs to an object.
func (c *crypt) open(m method, id ref, data []byte) []byte {
	key := c.key
	if m == oldRC4 || m == aes128 {
		own := append(bytes.Clone(key), byte(id.number), byte(id.number>>8), byte(id.number>>16), byte(id.generation), byte(id.generation>>8))
		if m == aes128 {
			own = append(own, "sAlT"...)
		}
		sum := md5.Sum(own) //nolint:gosec // as above
		key = sum[:min(len(key)+5, 16)]
	}
	switch m {
	case oldRC4:
		return withRC4(key, data)
	case aes128, aes256:
		block, err := aes.NewCipher(key)
		if err != nil || len(data) < 2*aes.BlockSize {
			return nil
		}
		body := bytes.Clone(data[aes.BlockSize : len(data)-len(data)%aes.BlockSize])
		cipher.NewCBCDecrypter(block, data[:aes.BlockSize]).CryptBlocks(body, body)
		n := int(body[len(body)-1])
		if n >= 1 && n <= aes.BlockSize {
			body = body[:len(body)-n]
		}
		return body
	}
	return data
}

// stream decrypts the bytes of a stream.
func (c *crypt) stream(s *stream) []byte {
	if s.dict["Type"] == name("XRef") || s.dict["Type"] == name("Metadata") && !c.hidesLayout {
		return s.raw
	}
	return c.open(c.streams, s.id, s.raw)
}

// strings decrypts the strings in an object of the file.
func (c *crypt) strings(o any, id ref) any {
	if c == nil || c.texts == plain {
		return o
	}
	switch o := o.(type) {
	case text:
		return text(c.open(c.texts, id, []byte(o)))
	case array:
		for i := range o {
			o[i] = c.strings(o[i], id)
		}
	case dict:
		for key := range o {
			o[key] = c.strings(o[key], id)
		}
	}
	return o
}
