-- The auction's tables, with 2,000 users and 2,000 items, always the same ones.
create database if not exists auction;
use auction;
create table categories (id int primary key, name varchar(50) not null) engine=innodb;
insert into categories select seq, concat('Category ', seq) from seq_1_to_20;
create table users (id int auto_increment primary key, nickname varchar(20) not null unique,
  password varchar(20) not null, rating int not null default 0, region int not null, created datetime not null) engine=innodb;
insert into users select seq, concat('user', seq), concat('password', seq), 0, seq % 62, now() from seq_1_to_2000;
create table items (id int auto_increment primary key, name varchar(100) not null, description text not null,
  seller int not null, category int not null, quantity int not null, initial_price decimal(10,2) not null,
  buy_now decimal(10,2) not null, max_bid decimal(10,2) not null, bids int not null default 0, ends datetime not null,
  key (category, ends), key (seller)) engine=innodb;
insert into items select seq, concat('Item ', seq), repeat(concat('It is the item of number ', seq, '. '), 20),
  1 + seq * 7 % 2000, 1 + seq % 20, 1 + seq % 10, 1 + seq % 100, 200 + seq % 100, 1 + seq % 100, 2,
  now() + interval seq % 168 + 1 hour from seq_1_to_2000;
create table bids (id int auto_increment primary key, user int not null, item int not null, quantity int not null,
  bid decimal(10,2) not null, placed datetime not null, key (item), key (user)) engine=innodb;
insert into bids select seq, 1 + seq * 13 % 2000, 1 + seq % 2000, 1, 1 + seq % 100, now() from seq_1_to_4000;
create table comments (id int auto_increment primary key, author int not null, subject int not null, item int not null,
  rating int not null, placed datetime not null, comment text not null, key (subject)) engine=innodb;
insert into comments select seq, 1 + seq * 3 % 2000, 1 + seq * 11 % 2000, 1 + seq % 2000,
  cast(seq % 5 as signed) - 2, now(), repeat('A comment of some length. ', 8) from seq_1_to_2000;
create table sales (id int auto_increment primary key, buyer int not null, item int not null, quantity int not null,
  placed datetime not null, key (buyer), key (item)) engine=innodb;
