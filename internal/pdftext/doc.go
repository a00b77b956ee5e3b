// Package pdftext reads the text of PDF files: in the order in which they draw it, with words, lines and
// paragraphs told apart, also in forms, in the fields of forms and in text from right to left. It repairs
// files whose tables are wrong, and decrypts those that need no password.
//
// Nothing that it makes is as large as a number in the file says: all of it grows with bytes that were read,
// what is unpacked is counted, references that lead back to themselves end, and everything ends with the
// context.
package pdftext
