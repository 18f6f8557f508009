/** Ed25519 in numbers. */
const PRIME = 2n ** 255n - 19n;
/** -121665 / 121666 modulo the prime. */
const D = 37095705934669439343138083508754565189542113879843219016388785533085940283555n;

/**
 * Whether 32 bytes are a point of the curve, as the chain decides it: then they may be somebody's key, and no program's address. With
 * y given, x² = (y² - 1) / (dy² + 1) must be a square.
 */
export function isOnCurve(bytes: Uint8Array): boolean {
  const reversed = Buffer.from(bytes).reverse();
  // The highest bit is the sign of x.
  reversed[0] = (reversed[0] as number) & 0x7f;
  const y = BigInt(`0x${reversed.toString('hex')}`);
  const square = (y * y) % PRIME;
  // u / v is a square when u * v is one, for they differ by the factor v².
  const product = (((square + PRIME - 1n) % PRIME) * ((D * square + 1n) % PRIME)) % PRIME;
  return jacobi(product, PRIME) >= 0;
}

/** 1 when `value` is a square modulo the prime, -1 when it is none, 0 for 0. */
function jacobi(value: bigint, prime: bigint): number {
  let [a, n, sign] = [value, prime, 1];
  while (a !== 0n) {
    let twos = 0;
    while ((a & 1n) === 0n) {
      a >>= 1n;
      twos += 1;
    }
    const rest = Number(n & 7n);
    if (twos % 2 === 1 && (rest === 3 || rest === 5)) sign = -sign;
    if ((a & 3n) === 3n && (rest & 3) === 3) sign = -sign;
    [a, n] = [n % a, a];
  }
  return n === 1n ? sign : 0;
}
