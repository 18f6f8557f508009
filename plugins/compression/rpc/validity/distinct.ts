import type { AddressPath } from '../../proofs/address-paths.ts';

/** Every address of a tree once, in order of first appearance. */
export function distinctAddresses(paths: readonly AddressPath[]): readonly AddressPath[] {
  const seen = new Set<string>();
  return paths.filter(({ address, tree }) => {
    const name = Buffer.concat([tree.key, address]).toString('latin1');
    const isNew = !seen.has(name);
    seen.add(name);
    return isNew;
  });
}
