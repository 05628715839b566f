<?php
// Pages that only read.

require 'common.php';

const LISTED = 20;

switch ($_GET['page'] ?? 'home') {
    case 'home':
        page('Auctions', '<p>Everything is for sale.</p>');
        break;
    case 'categories':
        page('Categories', table(rows('select id, name from categories')));
        break;
    case 'search':
        $items = rows('select id, name, max_bid, bids, ends from items where category = ? and ends >= now()
            order by ends limit ? offset ?', number('category'), LISTED, number('from') * LISTED);
        page('Items', table($items));
        break;
    case 'item':
        $item = row('select * from items where id = ?', number('item'));
        $seller = row('select nickname, rating from users where id = ?', $item['seller']);
        page($item['name'], table([$seller, $item]));
        break;
    case 'bids':
        $item = row('select name, max_bid from items where id = ?', number('item'));
        $bids = rows('select u.nickname, b.bid, b.quantity, b.placed from bids b join users u on u.id = b.user
            where b.item = ? order by b.bid desc limit ?', number('item'), LISTED);
        page('Bids for ' . $item['name'], table($bids));
        break;
    case 'user':
        $user = row('select nickname, rating, created from users where id = ?', number('user'));
        $comments = rows('select u.nickname, c.rating, c.placed, c.comment from comments c
            join users u on u.id = c.author where c.subject = ? order by c.id desc limit ?', number('user'), LISTED);
        page($user['nickname'], table([$user]), table($comments));
        break;
    case 'about':
        $me = user();
        page('About me',
            table(rows('select i.name, i.max_bid, b.bid from bids b join items i on i.id = b.item where b.user = ?
                order by b.id desc limit ?', $me, LISTED)),
            table(rows('select name, max_bid, bids, ends from items where seller = ? order by id desc limit ?', $me,
                LISTED)),
            table(rows('select i.name, s.quantity, s.placed from sales s join items i on i.id = s.item where s.buyer = ?
                order by s.id desc limit ?', $me, LISTED)),
            table(rows('select rating, comment from comments where subject = ? order by id desc limit ?', $me, LISTED)));
        break;
    default:
        http_response_code(404);
}
