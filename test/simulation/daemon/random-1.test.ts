import { manyLives } from './many-lives.ts';

manyLives(1);
