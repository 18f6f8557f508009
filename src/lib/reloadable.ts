/**
 * Marks a key of a configuration schema: a reload changes it in the running daemon. The code has to read the key each time that it uses
 * it, from the section that it was given; what is derived from it is made with `derived`.
 */
export const reloadable = <T extends object>(schema: T): T => ({ ...schema, reloadable: true });

/** Like `reloadable`, for a key that also turns something on or off: changes from or to null or an empty list need a restart. */
export const reloadableWhenSet = <T extends object>(schema: T): T => ({ ...schema, reloadable: 'set' });

/** What `make` returns for the current value; it is called again only when `read` returns another one. */
export function derived<K, T>(read: () => K, make: (value: K) => T): () => T {
  let of: { readonly value: K; readonly made: T } | null = null;
  return () => {
    const value = read();
    if (of === null || of.value !== value) of = { value, made: make(value) };
    return of.made;
  };
}
