/** Writes WebAssembly modules: just the sections and instructions that the kernel needs. */

const I32 = 0x7f;
const V128 = 0x7b;

/** Instructions of one function, its parameters being the locals from 0 on. */
export interface Code {
  /** A new local of type v128. */
  local(): number;
  get(local: number): Code;
  set(local: number): Code;
  i32(value: number): Code;
  call(index: number): Code;
  /** The 8 bytes at `address + offset`, the rest zero. */
  load64(offset: number): Code;
  /** The low 8 bytes to `address + offset`; the address and the value are on the stack. */
  store64(offset: number): Code;
  /** A vector with these four 32-bit lanes. */
  lanes(a: number, b: number, c: number, d: number): Code;
  shuffle(bytes: readonly number[]): Code;
  shiftRight64(bits: number): Code;
  and(): Code;
  add64(): Code;
  add32(): Code;
  multiply32(): Code;
  /** Products of the two low 32-bit lanes, as two 64-bit lanes. */
  widenMultiply(): Code;
  /** The two low 32-bit lanes as two 64-bit lanes. */
  widen(): Code;
}

interface WasmFunction {
  readonly parameters: number;
  readonly body: readonly number[];
}

export interface ModuleParts {
  readonly functions: readonly WasmFunction[];
  /** Name and function index. */
  readonly exported: { readonly name: string; readonly index: number };
  readonly memoryName: string;
  /** Pages of 64 KiB. */
  readonly memoryPages: number;
  readonly data: { readonly address: number; readonly bytes: Uint8Array };
}

/** A function that takes `parameters` addresses and returns nothing. */
export function defineFunction(parameters: number, write: (code: Code) => void): WasmFunction {
  const { code, bytes, locals } = createCode(parameters);
  write(code);
  const declared = locals() === 0 ? [0] : [1, ...unsigned(locals()), V128];
  return { parameters, body: sized([...declared, ...bytes, 0x0b]) };
}

export function encodeModule({ functions, exported, memoryName, memoryPages, data }: ModuleParts): Uint8Array {
  const most = Math.max(...functions.map(({ parameters }) => parameters));
  const types = Array.from({ length: most + 1 }, (_, count) => [0x60, count, ...Array<number>(count).fill(I32), 0]);
  const exports = [
    [...name(memoryName), 2, 0],
    [...name(exported.name), 0, ...unsigned(exported.index)],
  ];
  const segment = [0, 0x41, ...signed(data.address), 0x0b, ...unsigned(data.bytes.length)];
  return Uint8Array.from([
    ...[0x00, 0x61, 0x73, 0x6d, 1, 0, 0, 0],
    ...section(1, vector(types)),
    ...section(3, vector(functions.map(({ parameters }) => [parameters]))),
    ...section(5, vector([[0, ...unsigned(memoryPages)]])),
    ...section(7, vector(exports)),
    ...section(10, vector(functions.map(({ body }) => body))),
    ...section(11, vector([[...segment, ...data.bytes]])),
  ]);
}

function createCode(parameters: number) {
  const bytes: number[] = [];
  let locals = 0;
  const emit = (...more: number[]): Code => {
    for (const byte of more) bytes.push(byte);
    return code;
  };
  const simd = (opcode: number, ...more: number[]) => emit(0xfd, ...unsigned(opcode), ...more);
  const code: Code = {
    local: () => parameters + locals++,
    get: (local) => emit(0x20, ...unsigned(local)),
    set: (local) => emit(0x21, ...unsigned(local)),
    i32: (value) => emit(0x41, ...signed(value)),
    call: (index) => emit(0x10, ...unsigned(index)),
    load64: (offset) => simd(0x5d, 3, ...unsigned(offset)),
    store64: (offset) => simd(0x5b, 3, ...unsigned(offset), 0),
    lanes: (...values) => simd(0x0c, ...new Uint8Array(Uint32Array.from(values).buffer)),
    shuffle: (picked) => simd(0x0d, ...picked),
    shiftRight64: (bits) => emit(0x41, ...signed(bits)) && simd(0xcd),
    and: () => simd(0x4e),
    add64: () => simd(0xce),
    add32: () => simd(0xae),
    multiply32: () => simd(0xb5),
    widenMultiply: () => simd(0xde),
    widen: () => simd(0xc9),
  };
  return { code, bytes, locals: () => locals };
}

const section = (id: number, content: readonly number[]) => [id, ...sized(content)];
const sized = (content: readonly number[]) => [...unsigned(content.length), ...content];
const vector = (items: readonly (readonly number[])[]) => [...unsigned(items.length), ...items.flat()];
const name = (text: string) => [...unsigned(text.length), ...Buffer.from(text, 'latin1')];

/** LEB128. */
function unsigned(value: number): number[] {
  const bytes: number[] = [];
  let rest = value;
  for (; rest > 0x7f; rest = Math.floor(rest / 128)) bytes.push((rest & 0x7f) | 0x80);
  return [...bytes, rest];
}

function signed(value: number): number[] {
  const bytes: number[] = [];
  for (let rest = value; ; rest >>= 7) {
    const low = rest & 0x7f;
    if ((rest >= -64 && rest < 64) || rest === 0) return [...bytes, low];
    bytes.push(low | 0x80);
  }
}
