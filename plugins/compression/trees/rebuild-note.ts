/** Begins the names of notes of rebuilds that run, before the id of the tree: they cannot go on from another state. */
export const REBUILD_NOTE = 'rebuild:';
