import assert from 'node:assert/strict';
import { test } from 'node:test';
import fc from 'fast-check';
import { ProtobufReader, ProtobufWriter } from './protobuf.ts';

const MAX = 2n ** 64n - 1n;

/** 64 bits, as a reader takes them. */
function expectedOf(value: number | bigint): bigint {
  const whole = typeof value === 'bigint' ? value : BigInt(Number.isFinite(value) ? Math.trunc(value) : 0);
  return whole > MAX ? MAX : BigInt.asUintN(64, whole);
}

test('any number is a varint of at most 64 bits, so that it breaks no message', () => {
  const numbers = fc.oneof(
    fc.double(),
    fc.bigInt({ min: -(2n ** 70n), max: 2n ** 70n }),
    fc.constantFrom<number | bigint>(0, -1, 2 ** 53, 2 ** 63, 2 ** 64, MAX, -1n, 1.5, Number.NaN),
  );
  fc.assert(
    fc.property(fc.array(numbers, { minLength: 1, maxLength: 4 }), (values) => {
      const writer = new ProtobufWriter();
      writer.always(1, values[0]!);
      writer.packed(2, values);
      const reader = new ProtobufReader(writer.take());
      assert.equal(reader.next(), 1);
      assert.equal(reader.uint64(), expectedOf(values[0]!));
      assert.equal(reader.next(), 2);
      const packed: bigint[] = [];
      reader.uints(packed);
      assert.deepEqual(packed, values.map(expectedOf));
      assert.equal(reader.next(), 0);
    }),
  );
});
