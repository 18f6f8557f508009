import { Database } from '../sqlite.ts';

const TREE_PAGES = 2 ** 37;
/** How to take blocks back is pruned as blocks become final, notes and checks of roots have their own times. */
const LEFT_OUT = ['compression_undo', 'compression_notes'];
const TIMED = ['status', 'reason', 'verified_seq', 'verified_slot', 'id'];

type Row = Record<string, unknown>;

/** Everything that was indexed, as sorted lines per table: equal for two stores that hold the same, whatever order their trees were met in. */
export function dumpCompression(path: string): Record<string, string[]> {
  const database = new Database(path, { readonly: true });
  try {
    const names = database
      .prepare("SELECT name FROM sqlite_master WHERE type = 'table' AND name LIKE 'compression%'")
      .pluck()
      .all() as string[];
    const keys = database.prepare('SELECT id, hex(key) AS key FROM compression_trees').all() as {
      id: number;
      key: string;
    }[];
    const keyOf = new Map(keys.map(({ id, key }) => [id, key]));
    const line = (table: string, row: Row) => {
      const plain: Row = {};
      for (const [name, value] of Object.entries(row))
        plain[name] = Buffer.isBuffer(value) ? value.toString('hex') : value;
      if (typeof row['tree'] === 'number') plain['tree'] = keyOf.get(row['tree']);
      if (table === 'compression_trees') for (const name of TIMED) delete plain[name];
      if (table === 'compression_pages') {
        const id = row['id'] as number;
        plain['id'] = `${keyOf.get(Math.floor(id / TREE_PAGES))} ${id % TREE_PAGES}`;
      }
      return JSON.stringify(plain);
    };
    const tables = names.filter((name) => !LEFT_OUT.includes(name)).sort();
    const read = (table: string) =>
      (database.prepare(`SELECT * FROM ${table}`).all() as Row[]).map((row) => line(table, row)).sort();
    return Object.fromEntries(tables.map((table) => [table, read(table)]));
  } finally {
    database.close();
  }
}
