import { manyLives } from './many-lives.ts';

manyLives(2);
