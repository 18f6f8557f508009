/** The names of one kind of object, as they are written with quotes and colon, for comparing four bytes at a time. */
export class NameList {
  readonly texts: readonly Buffer[];
  private readonly views: readonly DataView[];
  /** Which name came after each one last time; number 0 is for the first of an object. */
  private readonly followers: Int32Array;

  constructor(names: readonly string[]) {
    this.texts = names.map((name) => Buffer.from(name));
    this.views = names.map((name) => {
      const { buffer, byteOffset, length } = Buffer.from(`"${name}":`);
      return new DataView(buffer, byteOffset, length);
    });
    this.followers = new Int32Array(names.length + 1);
  }

  /** The name that is likely to follow number `last` (-1: to come first). */
  after(last: number): number {
    return this.followers[last + 1]!;
  }

  learn(last: number, next: number): void {
    this.followers[last + 1] = next;
  }

  /** Length of name `number` with quotes and colon when it stands at `at`, else 0. */
  lengthAt(view: DataView, at: number, number: number): number {
    const name = this.views[number]!;
    const size = name.byteLength;
    if (at + size > view.byteLength) return 0;
    const last = size - 4;
    for (let offset = 0; offset < last; offset += 4)
      if (view.getInt32(at + offset, true) !== name.getInt32(offset, true)) return 0;
    return view.getInt32(at + last, true) === name.getInt32(last, true) ? size : 0;
  }
}
