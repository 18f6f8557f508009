import { postgresKind } from '../../../plugins/sinks/targets/postgres.ts';
import { postgresDatabase } from '../../helpers/store.ts';
import { sinkSuite } from './suite.ts';

sinkSuite({
  name: 'postgres',
  kind: postgresKind,
  place: async (t) => (await postgresDatabase(t)).url,
});
